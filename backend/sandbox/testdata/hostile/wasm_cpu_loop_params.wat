;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (i64.const 1) (i64.const 2) (loop $l (param i64 i64) (result i64 i64) (i64.const 1) (i64.add) (br $l)) (drop) (drop)))
