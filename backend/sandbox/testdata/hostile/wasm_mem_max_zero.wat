;; class: ok trap output
(module
  (memory (export "memory") 0 0)
  (func (export "execute") (drop (memory.grow (i32.const 1))) (drop (i32.load (i32.const 0)))))
