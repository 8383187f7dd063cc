package io.raycommitter;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Sets {@link SnapshotFilter} for all sessions of a driver, and checks what Spark has listed with it.
 *
 * <p>Set it with {@code spark.sql.extensions}.
 */
public final class SnapshotExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        Configuration conf = DriverContext.get().hadoopConfiguration();
        String filter = conf.get(SnapshotFilter.KEY);
        if (filter != null && !filter.equals(SnapshotFilter.class.getName())) {
            throw new IllegalArgumentException(SnapshotFilter.KEY + "=" + filter + ": is set already, and"
                    + " there can be one filter; remove it, or " + SnapshotExtensions.class.getName());
        }
        conf.set(SnapshotFilter.KEY, SnapshotFilter.class.getName());
        extensions.injectCheckRule(session -> {
            Function1<LogicalPlan, BoxedUnit> check = plan -> checkAnalyzed(session, plan);
            return check;
        });
        extensions.injectColumnar(SnapshotExtensions::beforeRun);
        return BoxedUnit.UNIT;
    }

    private static BoxedUnit checkAnalyzed(SparkSession session, LogicalPlan plan) {
        plan.foreach(node -> {
            if (node instanceof LogicalRelation) {
                LogicalRelation found = (LogicalRelation) node;
                SnapshotCheck.runAnalyzed(session, found.relation(), found.catalogTable().isDefined());
            }
            return BoxedUnit.UNIT;
        });
        return BoxedUnit.UNIT;
    }

    /**
     * Checks a physical plan: tables of a catalog are listed after the analysis, and others can have been
     * listed again. Of the rules that extensions can add, only those for columnar data run so late.
     */
    private static ColumnarRule beforeRun(SparkSession session) {
        return new ColumnarRule() {
            @Override
            public Rule<SparkPlan> preColumnarTransitions() {
                return new CheckScans(session);
            }
        };
    }

    private static final class CheckScans extends Rule<SparkPlan> {
        private final SparkSession session;

        CheckScans(SparkSession session) {
            this.session = session;
        }

        @Override
        public SparkPlan apply(SparkPlan plan) {
            plan.foreach(node -> {
                if (node instanceof FileSourceScanExec) {
                    FileSourceScanExec scan = (FileSourceScanExec) node;
                    boolean isOfCatalog = scan.tableIdentifier().isDefined();
                    SnapshotCheck.runPlanned(session, scan.relation(), isOfCatalog);
                }
                return BoxedUnit.UNIT;
            });
            return plan;
        }
    }
}
