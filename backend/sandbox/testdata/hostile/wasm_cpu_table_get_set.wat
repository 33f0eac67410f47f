;; class: cpu
(module
  (memory (export "memory") 1)
  (table $t 2 externref)
  (func (export "execute") (loop $l (table.set $t (i32.const 0) (table.get $t (i32.const 1))) (br $l))))
