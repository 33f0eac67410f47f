;; class: cpu
(module
  (memory (export "memory") 800)
  (func (export "execute") (loop $l (memory.copy (i32.const 1) (i32.const 0) (i32.const 0x31fffff)) (br $l))))
