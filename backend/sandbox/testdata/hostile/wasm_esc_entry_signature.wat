;; class: compile missing_export
(module
  (memory (export "memory") 1)
  (func (export "execute") (param i32)))
