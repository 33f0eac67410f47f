;; class: trap
(module
  (memory (export "memory") 1)
  (func $s (call $s) (i32.store (i32.const 0) (i32.const 1))) (start $s)
  (func (export "execute") ))
