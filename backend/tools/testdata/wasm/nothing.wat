;; Has no entry.
(module
  (memory (export "memory") 1)
  (func (export "main") (result i32) (i32.const 1)))
