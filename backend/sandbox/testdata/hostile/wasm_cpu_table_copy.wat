;; class: cpu
(module
  (memory (export "memory") 1)
  (table $t 900000 funcref)
  (func (export "execute") (loop $l (table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 899999)) (br $l))))
