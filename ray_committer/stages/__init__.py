"""The stages of the protocol, by Hadoop's names: one module and one public function a stage."""
