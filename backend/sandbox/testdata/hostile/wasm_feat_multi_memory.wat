;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") 1) (memory 1)
  (func (export "execute") ))
