; What a JavaScript file defines; variables at the top only.
(function_declaration name: (identifier) @name body: (statement_block) @body) @def.fn
(generator_function_declaration name: (identifier) @name body: (statement_block) @body) @def.fn
(class_declaration name: (identifier) @name body: (class_body) @body) @def.class
(method_definition name: (_) @name body: (statement_block) @body) @def.fn
(program (lexical_declaration
  (variable_declarator name: (identifier) @name value: (arrow_function body: (statement_block) @body))) @def.fn)
(program (export_statement (lexical_declaration
  (variable_declarator name: (identifier) @name value: (arrow_function body: (statement_block) @body))) @def.fn))
(program (lexical_declaration kind: "let" (variable_declarator name: (identifier) @name)) @def.var)
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @def.const)
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @def.const))
(program (variable_declaration (variable_declarator name: (identifier) @name)) @def.var)
