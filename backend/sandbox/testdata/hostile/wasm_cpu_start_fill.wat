;; class: cpu
(module
  (memory (export "memory") 512)
  (func $s (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x2000000)) (br $l))) (start $s)
  (func (export "execute") ))
