;; class: trap
(module
  (memory (export "memory") 1)
  (func $f (param i32) (result i32) (i32.add (call $f (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "execute") (drop (call $f (i32.const 0)))))
