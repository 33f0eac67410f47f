;; class: compile
(module
  (import "helix" "spawn" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "execute") ))
