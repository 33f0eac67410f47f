;; class: trap
(module
  (memory (export "memory") 1)
  (type $t (func)) (type $u (func (param i64))) (table 1 funcref) (elem (i32.const 0) $f) (func $f (type $u))
  (func (export "execute") (call_indirect (type $t) (i32.const 0))))
