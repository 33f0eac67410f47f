;; class: cpu
;; memory: 128
(module
  (memory (export "memory") 1600)
  (func (export "execute") (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 100000000)) (br $l))))
