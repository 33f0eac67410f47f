;; class: cpu
(module
  (memory (export "memory") 1)
  (func $f (block (br 0)) (return))
  (func (export "execute") (loop $l (call $f) (br $l))))
