;; class: cpu
(module
  (memory (export "memory") 1)
  (func $f (param i32) (result i32) (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1)) (else (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 1)))))))
  (func (export "execute") (drop (call $f (i32.const 60)))))
