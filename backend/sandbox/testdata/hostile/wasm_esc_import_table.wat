;; class: compile
(module
  (import "helix" "table" (table 1 funcref))
  (memory (export "memory") 1)
  (func (export "execute") ))
