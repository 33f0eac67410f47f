// class: ok
return '\ud800 \udfff \u0000'
