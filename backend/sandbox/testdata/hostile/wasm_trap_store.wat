;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (v128.store offset=65528 (i32.const 0) (v128.const i64x2 1 2))))
