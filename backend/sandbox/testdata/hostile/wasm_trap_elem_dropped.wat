;; class: trap
(module
  (memory (export "memory") 1)
  (table $t 1 funcref) (elem $e func $f) (func $f)
  (func (export "execute") (elem.drop $e) (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1))))
