//! Whether a template wants a message's content as one string or as parts.
//!
//! The rule is vLLM's (`renderers/hf.py`): parts, iff somewhere in the template a loop runs over the `content` of a
//! variable that an earlier loop took from `messages`, or from a variable assigned from it. Filters, tests and slices
//! around either do not matter; scopes do not either.
//!
//! Not here: building the content (`messages`).

use minijinja::Error;
use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

/// How content is given to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentFormat {
    /// One string; parts are joined by line ends.
    Text,
    /// A list of parts, also where the client sent a string.
    Parts,
}

/// The format that the template of this source wants.
pub(super) fn detect(source: &str) -> Result<ContentFormat, Error> {
    let template = parse(source, "chat_template", SyntaxConfig::default())?;
    let mut found = Found::default();
    found.statement(&template);
    let mut of_messages = vec!["messages"];
    let mut at = 0;
    while at < of_messages.len() {
        let name = of_messages[at];
        let assigned = found.assigned.iter().filter(|(_, value)| is_access(value, name, None));
        for (target, _) in assigned {
            if !of_messages.contains(target) {
                of_messages.push(target);
            }
        }
        at += 1;
    }
    let over = |names: &[&str], key: Option<&str>| {
        let loops = found.loops.iter().filter(|(_, over)| names.iter().any(|name| is_access(over, name, key)));
        loops.map(|(target, _)| *target).collect::<Vec<_>>()
    };
    let message = over(&of_messages, None);
    let content = over(&message, Some("content"));
    Ok(if content.is_empty() { ContentFormat::Text } else { ContentFormat::Parts })
}

/// The assignments and loops of a template whose target is one name.
#[derive(Default)]
struct Found<'a> {
    assigned: Vec<(&'a str, &'a Expr<'a>)>,
    loops: Vec<(&'a str, &'a Expr<'a>)>,
}

impl<'a> Found<'a> {
    fn all(&mut self, statements: &'a [Stmt<'a>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'a Stmt<'a>) {
        match statement {
            Stmt::Template(of) => self.all(&of.children),
            Stmt::ForLoop(of) => {
                if let Expr::Var(target) = &of.target {
                    self.loops.push((target.id, &of.iter));
                }
                self.all(&of.body);
                self.all(&of.else_body);
            }
            Stmt::IfCond(of) => {
                self.all(&of.true_body);
                self.all(&of.false_body);
            }
            Stmt::Set(of) => {
                if let Expr::Var(target) = &of.target {
                    self.assigned.push((target.id, &of.expr));
                }
            }
            Stmt::WithBlock(of) => self.all(&of.body),
            Stmt::SetBlock(of) => self.all(&of.body),
            Stmt::AutoEscape(of) => self.all(&of.body),
            Stmt::FilterBlock(of) => self.all(&of.body),
            Stmt::Block(of) => self.all(&of.body),
            Stmt::Macro(of) => self.all(&of.body),
            Stmt::CallBlock(of) => self.all(&of.macro_decl.body),
            Stmt::EmitExpr(_)
            | Stmt::EmitRaw(_)
            | Stmt::Import(_)
            | Stmt::FromImport(_)
            | Stmt::Extends(_)
            | Stmt::Include(_)
            | Stmt::Continue(_)
            | Stmt::Break(_)
            | Stmt::Do(_) => {}
        }
    }
}

/// Whether the expression is the variable (or its attribute `key`), whatever filters, tests and slices are around it.
fn is_access(expr: &Expr<'_>, name: &str, key: Option<&str>) -> bool {
    match expr {
        Expr::Filter(of) => of.expr.as_ref().is_some_and(|inner| is_access(inner, name, key)),
        Expr::Test(of) => is_access(&of.expr, name, key),
        Expr::Slice(of) => is_access(&of.expr, name, key),
        Expr::Var(of) => key.is_none() && of.id == name,
        Expr::GetAttr(of) => key == Some(of.name) && is_access(&of.expr, name, None) && is_var(&of.expr),
        Expr::GetItem(of) => {
            let asked = matches!(&of.subscript_expr, Expr::Const(of) if of.value.as_str() == key && key.is_some());
            asked && is_var(&of.expr) && is_access(&of.expr, name, None)
        }
        Expr::Const(_)
        | Expr::UnaryOp(_)
        | Expr::BinOp(_)
        | Expr::Compare(_)
        | Expr::IfExpr(_)
        | Expr::Call(_)
        | Expr::List(_)
        | Expr::Tuple(_)
        | Expr::Map(_) => false,
    }
}

const fn is_var(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Var(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_over_a_messages_content_asks_for_parts() {
        let parts = [
            "{% for m in messages %}{% for c in m['content'] %}{{ c }}{% endfor %}{% endfor %}",
            "{% for m in messages[1:] %}{% if 1 %}{% for c in m.content | list %}{% endfor %}{% endif %}{% endfor %}",
            "{% set loop_messages = messages %}{% for m in loop_messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
            "{% macro r(m) %}{% for c in m.content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m) }}{% endfor %}",
        ];
        for source in parts {
            assert_eq!(detect(source).expect("parses"), ContentFormat::Parts, "{source}");
        }
        let text = [
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}",
            "{% for m in others %}{% for c in m.content %}{% endfor %}{% endfor %}",
            "{% for m in messages %}{% for c in m.x.content %}{% endfor %}{% endfor %}",
        ];
        for source in text {
            assert_eq!(detect(source).expect("parses"), ContentFormat::Text, "{source}");
        }
        assert!(detect("{% for %}").is_err());
    }
}
