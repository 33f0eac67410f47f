;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (local i64) (local.set 0 (i64.const 7)) (loop $l (local.set 0 (i64.div_s (i64.const -9223372036854775807) (i64.or (local.get 0) (i64.const 3)))) (local.set 0 (i64.rem_u (local.get 0) (i64.const 1000003))) (br $l))))
