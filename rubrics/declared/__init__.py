"""Rubrics that are declared as data instead of written as a package: criteria, what each may be answered, weights."""

from rubrics.declared.declaration import Criterion, Declaration, DeclaredLabel, Level
from rubrics.declared.rubric import DeclaredRubric, declared_rubric

__all__ = ["Criterion", "Declaration", "DeclaredLabel", "DeclaredRubric", "Level", "declared_rubric"]
