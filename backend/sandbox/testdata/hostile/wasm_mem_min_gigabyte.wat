;; class: compile memory
(module
  (memory (export "memory") 16384)
  (func (export "execute") ))
