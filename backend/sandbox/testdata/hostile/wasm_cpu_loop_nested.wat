;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $a (loop $b (block $c (br_if $b (i32.const 1)) (br $c))) (br $a))))
