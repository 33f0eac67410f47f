;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (drop (memory.grow (i32.const 0))) (br $l))))
