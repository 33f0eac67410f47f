;; class: compile
(module
  (import "helix" "call" (func (param i64 i64) (result i64)))
  (memory (export "memory") 1)
  (func (export "execute") ))
