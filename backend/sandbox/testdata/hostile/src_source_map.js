// class: ok thrown
throw new Error('x')
//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbIi9ldGMvcGFzc3dkIl0sIm1hcHBpbmdzIjoiQUFBQSJ9
