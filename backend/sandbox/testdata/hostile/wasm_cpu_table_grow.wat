;; class: cpu
(module
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (func (export "execute") (loop $l (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $l))))
