;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (local i32) (loop $l (block $a (block $b (block $c (br_table $l $a $b $c $l (i32.rem_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 7)))))) (br $l))))
