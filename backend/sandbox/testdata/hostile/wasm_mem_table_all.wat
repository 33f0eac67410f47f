;; class: compile
(module
  (memory (export "memory") 1)
  (table 0xffffffff funcref)
  (func (export "execute") ))
