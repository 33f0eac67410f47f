;; class: compile memory
(module
  (memory (export "memory") 65536)
  (func (export "execute") ))
