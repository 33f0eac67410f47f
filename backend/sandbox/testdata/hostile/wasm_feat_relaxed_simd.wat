;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i8x16.relaxed_swizzle (v128.const i64x2 1 2) (v128.const i64x2 1 2)))))
