;; class: trap
(module
  (memory (export "memory") 1)
  (type $t (func)) (table 1 funcref) (elem (i32.const 0) $f)
  (func $f (type $t) (call_indirect (type $t) (i32.const 0)) (i32.store (i32.const 0) (i32.const 1)))
  (func (export "execute") (call_indirect (type $t) (i32.const 0))))
