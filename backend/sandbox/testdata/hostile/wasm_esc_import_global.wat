;; class: compile
(module
  (import "helix" "fuel" (global (mut i64)))
  (memory (export "memory") 1)
  (func (export "execute") ))
