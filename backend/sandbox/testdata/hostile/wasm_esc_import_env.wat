;; class: compile
(module
  (import "env" "system" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "execute") ))
