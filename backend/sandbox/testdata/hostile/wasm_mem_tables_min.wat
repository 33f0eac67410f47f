;; class: compile
(module
  (memory (export "memory") 1)
  (table 600000 funcref) (table 600000 externref)
  (func (export "execute") ))
