;; class: cpu
(module
  (memory (export "memory") 1)
  (table $t 900000 funcref)
  (func (export "execute") (loop $l (table.fill $t (i32.const 0) (ref.null func) (i32.const 900000)) (br $l))))
