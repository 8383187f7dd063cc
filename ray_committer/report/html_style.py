"""The style of the HTML report: below one class, so that a notebook around it keeps its own."""

from __future__ import annotations

PAGE_STYLE = """
html{background:#fff}
body{margin:0}
@media (prefers-color-scheme:dark){html{background:#12161c}}
"""

STYLE = """
.rc{
  --paper:#fff; --ink:#1c2430; --soft:#5a6675; --line:#dce2e9; --card:#f3f5f8; --bar:#2f6fb3;
  --good:#1a7f4b; --good-paper:#e7f5ec; --fail:#b3261e; --fail-paper:#fdecea; --warn:#a86100;
  background:var(--paper); color:var(--ink); max-width:68rem; margin:0 auto; padding:1.25rem;
  font:15px/1.5 system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  overflow-wrap:anywhere;
}
@media (prefers-color-scheme:dark){.rc{
  --paper:#12161c; --ink:#e4e9f0; --soft:#9aa7b6; --line:#2b3440; --card:#1c232d; --bar:#5b9fe3;
  --good:#5fd394; --good-paper:#12301f; --fail:#ff8a80; --fail-paper:#3a1715; --warn:#f0b04a;
}}
.rc, .rc *{box-sizing:border-box}
.rc h1{font-size:1.25rem; line-height:1.3; margin:0; font-weight:650}
.rc h2{font-size:1rem; margin:2rem 0 .6rem; font-weight:650}
.rc p{margin:.35rem 0}
.rc footer{margin:2rem 0 .5rem; font-size:.8rem}
.rc .soft{color:var(--soft)}
.rc p.soft{font-size:.9rem}
.rc dl + p{margin-top:.75rem}
.rc .verdict{
  border-left:.35rem solid var(--good); background:var(--good-paper); padding:.9rem 1rem;
  border-radius:.4rem;
}
.rc .verdict.failed{border-color:var(--fail); background:var(--fail-paper)}
.rc .error{color:var(--fail); white-space:pre-wrap}
.rc dl{display:grid; grid-template-columns:repeat(6,1fr); gap:.6rem; margin:1rem 0 0}
.rc dl div{background:var(--card); border-radius:.4rem; padding:.6rem .75rem; min-width:0}
.rc dt{color:var(--soft); font-size:.8rem; font-weight:400}
.rc dd{
  margin:0; font-size:1.2rem; font-weight:650; line-height:1.3; font-variant-numeric:tabular-nums;
}
.rc dd small{display:block; font-weight:400; font-size:.8rem; color:var(--soft)}
.rc ul{margin:0; padding-left:1.2rem}
.rc li{margin:.3rem 0}
.rc svg{display:block; width:100%; height:8rem; border:1px solid var(--line); border-width:0 0 1px}
.rc polyline, .rc path{fill:none; stroke:var(--bar); stroke-width:1.5; vector-effect:non-scaling-stroke}
.rc .span{fill:var(--warn); fill-opacity:.25}
.rc .lost{stroke:var(--fail); stroke-dasharray:4 3}
.rc table{border-collapse:collapse; width:100%; font-size:.9rem; font-variant-numeric:tabular-nums}
.rc th, .rc td{
  text-align:right; padding:.35rem .5rem; border-bottom:1px solid var(--line); vertical-align:top;
  white-space:nowrap;
}
.rc th{color:var(--soft); font-weight:500; font-size:.8rem}
.rc th:first-child, .rc td:first-child{text-align:left; padding-left:0; white-space:normal}
.rc th:last-child, .rc td:last-child{padding-right:0}
.rc summary{cursor:pointer; padding:.6rem 0; color:var(--soft)}
.rc td small{display:block; color:var(--soft)}
.rc td.bar{width:60%; padding-left:0; padding-right:0}
.rc td.meter{width:26%}
.rc td i{
  display:block; height:.4rem; border-radius:.2rem; background:var(--bar); margin:.3rem 0 0 auto;
}
.rc tr.slow i{background:var(--warn)}
.rc tr.failed i{background:var(--fail)}
.rc .tag{color:var(--fail); font-weight:600}
.rc .tag.slow{color:var(--warn)}
.rc pre{
  background:var(--card); border-radius:.4rem; padding:.75rem .9rem; margin:0;
  white-space:pre-wrap;
  font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
}
@media (max-width:52rem){.rc dl{grid-template-columns:repeat(3,1fr)}}
@media (max-width:36rem){
  .rc{padding:.75rem}
  .rc dl{grid-template-columns:repeat(2,1fr)}
  .rc .wide{display:none}
  .rc th, .rc td{padding:.35rem .3rem}
  .rc td.bar{width:40%}
  .rc td.meter{width:18%}
}
@media print{.rc{max-width:none}}
"""
