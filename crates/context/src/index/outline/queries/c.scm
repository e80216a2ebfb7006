; What a C file defines or declares.
(function_definition declarator: (function_declarator declarator: (identifier) @name) body: (_) @body) @def.fn
(function_definition declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name)) body: (_) @body) @def.fn
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name))) body: (_) @body) @def.fn
(translation_unit (declaration declarator: (function_declarator declarator: (identifier) @name)) @def.fn)
(translation_unit (declaration declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name))) @def.fn)
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.struct
(union_specifier name: (type_identifier) @name body: (_) @body) @def.struct
(enum_specifier name: (type_identifier) @name body: (_) @body) @def.enum
(type_definition type: (struct_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.struct
(type_definition type: (enum_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.enum
(type_definition declarator: (type_identifier) @name) @def.type
(preproc_function_def name: (identifier) @name) @def.macro
