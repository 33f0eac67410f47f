;; class: trap
(module
  (memory (export "memory") 1)
  (data $d "x")
  (func (export "execute") (data.drop $d) (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))))
