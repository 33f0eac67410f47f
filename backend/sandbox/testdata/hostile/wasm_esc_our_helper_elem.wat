;; class: compile
;; flags: --no-check
(module
  (memory (export "memory") 1)
  (table 1 funcref) (elem (i32.const 0) 1)
  (func (export "execute") ))
