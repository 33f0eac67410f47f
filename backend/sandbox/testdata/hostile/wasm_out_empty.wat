;; class: output
(module
  (memory (export "memory") 1)
  (func (export "execute") ))
