;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (local v128) (loop $l (local.set 0 (i8x16.swizzle (i32x4.mul (local.get 0) (v128.const i32x4 1 2 3 4)) (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 31 (local.get 0) (local.get 0)))) (br $l))))
