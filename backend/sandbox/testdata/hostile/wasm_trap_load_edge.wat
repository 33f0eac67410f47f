;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i32.load (i32.const 65533)))))
