;; class: trap
(module
  (memory (export "memory") 1)
  (type $t (func)) (table 2 funcref)
  (func (export "execute") (call_indirect (type $t) (i32.const 1))))
