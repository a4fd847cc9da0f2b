"""An app of nothing but an inbox; who looks, and at which store, stands in its address."""

import streamlit as st

from sayso.streamlit import approval_inbox

st.set_page_config(layout="wide")
approval_inbox(st.query_params["store"], who=st.query_params["who"], every=0.5)
