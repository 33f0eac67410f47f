;; class: compile memory
;; memory: 64
(module
  (memory (export "memory") 1500)
  (func (export "execute") ))
