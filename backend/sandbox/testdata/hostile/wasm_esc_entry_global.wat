;; class: compile missing_export
(module
  (memory (export "memory") 1)
  (global (export "execute") i32 (i32.const 1)))
