;; class: compile
(module
  (memory (export "memory") 1)
  (global (export "helix:budget") (mut i64) (i64.const -1))
  (func (export "execute") ))
