;; class: missing_export
(module
  (memory (export "memory") 1)
  (func (export "run")))
