;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (loop $m (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536))) (br $m))))
