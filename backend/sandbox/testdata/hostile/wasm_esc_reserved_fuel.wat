;; class: compile
(module
  (memory (export "memory") 1)
  (global (export "helix:fuel") (mut i64) (i64.const 9223372036854775807))
  (func (export "execute") ))
