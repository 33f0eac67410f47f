;; class: compile missing_export
(module
  (memory (export "memory") 1)
  (func (export "execute") (result i32) (i32.const 0)))
